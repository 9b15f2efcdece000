/** Creates a logger that writes warnings to the console, because the verifiers have no option for a logger. */
export function createWarningLogger(): { warn: (fields: object, message: string) => void } {
  return { warn: (fields, message) => console.warn(`express-did-auth/verify: ${message}`, fields) }
}
