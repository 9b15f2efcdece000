import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']

/**
 * The Chromium for tests in a browser: the one that `CHROMIUM` names, else one on the `PATH`.
 *
 * @returns undefined where there is none
 */
export function findChromium({ CHROMIUM: own = '', PATH: path = '' } = process.env) {
  if (own !== '') return existsSync(own) ? own : undefined
  return path
    .split(delimiter)
    .flatMap((folder) => NAMES.map((name) => join(folder, name)))
    .find((file) => existsSync(file))
}
