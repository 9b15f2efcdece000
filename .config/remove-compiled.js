import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Jest's globalTeardown: removes what .config/compile-for-tests.js compiled for the processes of this run, and what its tests packed. */
export default function removeCompiled() {
  if (process.env.TEST_COMPILED !== undefined) rmSync(process.env.TEST_COMPILED, { recursive: true, force: true })
  rmSync(join(tmpdir(), `did-auth-packed-${process.pid}`), { recursive: true, force: true })
}
