import { createRequire } from 'node:module'
import { isObject } from '../protocol/json.js'

/**
 * Loads a package at run time, so that our type declarations do not depend on it.
 * @throws Error that names the command to install or rebuild it
 */
export function loadPackage(name: string, store: string, version = ''): unknown {
  try {
    return createRequire(import.meta.url)(name)
  } catch (cause) {
    const isMissing = isObject(cause) && cause.code === 'MODULE_NOT_FOUND'
    const reason = isMissing
      ? `needs the package ${name}: npm install ${name}${version}`
      : `cannot load the package ${name}: npm rebuild ${name}`
    throw new Error(`express-did-auth/stores/${store} ${reason}`, { cause })
  }
}
