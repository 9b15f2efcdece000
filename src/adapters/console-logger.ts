import type { Logger } from '../ports.js'

/** Warnings and errors on the console; what is only informative is left out. */
export const consoleLogger: Logger = {
  info() {
    // A library that nobody asked says nothing when all is well.
  },
  warn(fields, message) {
    console.warn('express-did-auth:', message, fields)
  },
  error(fields, message) {
    console.error('express-did-auth:', message, fields)
  }
}
