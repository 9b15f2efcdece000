import type { Logger } from '../ports.js'

/** Warnings and errors on the console, without informative lines. */
export const consoleLogger: Logger = {
  info() {
    // By default a library writes no line about normal operation.
  },
  warn(fields, message) {
    console.warn('express-did-auth:', message, fields)
  },
  error(fields, message) {
    console.error('express-did-auth:', message, fields)
  }
}
