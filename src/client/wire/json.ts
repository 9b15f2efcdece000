/** Returns the fields of a value of any type; a primitive has none. */
export function parseFields(value: unknown): Readonly<Record<string, unknown>> {
  return (value ?? {}) as Record<string, unknown>
}

/** Parses JSON; undefined for any other text. */
export function parseJson(text: string | null | undefined): unknown {
  try {
    return JSON.parse(String(text))
  } catch {
    return undefined
  }
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** Whether a value is one word, so that it adds no line to a text that a wallet signs. */
export function isWord(value: unknown): value is string {
  return isText(value) && /^[\w-]{1,256}$/.test(value)
}
