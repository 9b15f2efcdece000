/** Any value of JSON. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue }
/** A JSON object. */
export type JsonObject = Record<string, JsonValue>

/** Whether a value is a JSON object: neither an array nor null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Reads an own field of a value, never one of its prototype. Use it for untrusted values. */
export function readField(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** Freezes a JSON value deeply, so that requests can share it. */
export function freezeDeep<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(freezeDeep)
  }
  return value
}

/**
 * Deletes every own key `__proto__` of a JSON value, at any depth. `JSON.parse` creates these keys, and copying one by
 * assignment, as `Object.assign` does, changes a prototype. The depth is untrusted, so the code does not recurse.
 */
export function dropProtoKeys(value: unknown): void {
  const waiting: unknown[] = [value]
  while (waiting.length > 0) {
    const next = waiting.pop()
    if (typeof next !== 'object' || next === null) continue
    if (Object.hasOwn(next, '__proto__')) Reflect.deleteProperty(next, '__proto__')
    const members: unknown[] = Object.values(next)
    waiting.push(...members.filter((member) => typeof member === 'object'))
  }
}
