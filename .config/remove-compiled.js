import { rmSync } from 'node:fs'

/** Jest's globalTeardown: removes what .config/compile-for-tests.js compiled for the processes of this run. */
export default function removeCompiled() {
  if (process.env.TEST_COMPILED !== undefined) rmSync(process.env.TEST_COMPILED, { recursive: true, force: true })
}
