import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import type { Random } from '../ports.js'

/** Names of the errors of this operating system, such as `ECONNREFUSED`. */
export const systemErrorCodes: ReadonlySet<string> = new Set(Object.keys(constants.errno))

const POOL_BYTES = 4096
let pool = Buffer.alloc(0)

/** The operating system's random numbers, fetched 4 KiB at a time: a call for each token would slow logins down. */
export const systemRandom: Random = {
  id(byteCount) {
    if (pool.length < byteCount) pool = randomBytes(Math.max(POOL_BYTES, byteCount))
    const bytes = pool.subarray(0, byteCount)
    pool = pool.subarray(byteCount)
    const id = bytes.toString('base64url')
    // The pool must not keep the bytes of a token in memory.
    bytes.fill(0)
    return id
  }
}
