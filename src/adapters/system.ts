import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import type { Random } from '../ports.js'

/** Error codes of this operating system, such as `ECONNREFUSED`. */
export const systemErrorCodes: ReadonlySet<string> = new Set(Object.keys(constants.errno))

const POOL_BYTES = 4096
let pool = Buffer.alloc(0)

/** Random numbers of the operating system, fetched 4 KiB at a time, because a call per token would slow logins. */
export const systemRandom: Random = {
  id(byteCount) {
    if (pool.length < byteCount) pool = randomBytes(Math.max(POOL_BYTES, byteCount))
    const bytes = pool.subarray(0, byteCount)
    pool = pool.subarray(byteCount)
    const id = bytes.toString('base64url')
    // Erase the bytes of the token from the pool.
    bytes.fill(0)
    return id
  }
}
