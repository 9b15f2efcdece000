import { accessSync, constants, statSync } from 'node:fs'
import { startStep } from './startup-error.js'

const FILE = '.env'

/**
 * Loads the variables of `.env` in the working directory, as `keys new --out .env` writes them, into `process.env`. What the
 * environment has already wins.
 *
 * @returns the file's name; undefined where there is none
 * @throws StartError when it cannot be read
 */
export function loadEnvFile(): string | undefined {
  const found = statSync(FILE, { throwIfNoEntry: false })
  // Python has folders of this name.
  if (found === undefined || found.isDirectory()) return undefined
  startStep(`Cannot read ${FILE}`, () => {
    accessSync(FILE, constants.R_OK)
    process.loadEnvFile(FILE)
  })
  return FILE
}
