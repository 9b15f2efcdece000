// The address of an RPC node often carries its customer's key.
const SECRET_FIELD = /secret|signer|rpcUrl|config/i
// A private key in the wrong field.
const KEY = /[0-9a-f]{64,}/gi
const MAX_SHOWN_LENGTH = 100

/** A value as a message may show it. */
export function describe(field: string, value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return describeArray(field, value)
  const isSecret = SECRET_FIELD.test(field)
  if (!isSecret && (typeof value === 'number' || typeof value === 'boolean')) return String(value)
  if (isSecret || typeof value !== 'string') return `a value of type ${typeof value} (not shown)`
  const shown = value.replace(KEY, '(not shown)')
  return JSON.stringify(shown.length > MAX_SHOWN_LENGTH ? `${shown.slice(0, MAX_SHOWN_LENGTH)}…` : shown)
}

function describeArray(field: string, values: unknown[]): string {
  const shown = values.map((value) => (Array.isArray(value) ? 'an array' : describe(field, value))).join(', ')
  return `[${shown.length > MAX_SHOWN_LENGTH ? `${shown.slice(0, MAX_SHOWN_LENGTH)}…` : shown}]`
}
