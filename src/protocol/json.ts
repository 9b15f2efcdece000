/** Any value of JSON. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue }
export type JsonObject = Record<string, JsonValue>

/** Whether a value is an object in the sense of JSON: no array, not null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Reads a value's own field, so that what a stranger sends never reaches a prototype. */
export function readField(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** Freezes a JSON value all the way down: it is going to be shared between requests. */
export function freezeDeep<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(freezeDeep)
  }
  return value
}

/**
 * Removes every own key `__proto__` of a JSON value, all the way down: `JSON.parse` makes such keys, and to copy one by
 * assignment, as `Object.assign` does, changes a prototype. Without recursion: a stranger chooses the depth.
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
