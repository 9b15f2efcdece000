import { ServerError } from '../shared/http/server-error.js'
import type { Usage } from './vault-index.js'

/** How much one DID may keep. */
export type Quota = Usage

/**
 * Asserts that a write leaves its owner within the quota. One that takes nothing more passes also when the quota has
 * been lowered below what is there.
 *
 * @throws ServerError ERR_STORAGE_FULL with the numbers
 */
export function assertWithin(quota: Quota, before: Usage, after: Usage): void {
  if (after.byteCount > Math.max(quota.byteCount, before.byteCount)) {
    const detail = `${after.byteCount} bytes with this, at most ${quota.byteCount}`
    throw new ServerError('ERR_STORAGE_FULL', { detail })
  }
  if (after.entryCount > Math.max(quota.entryCount, before.entryCount)) {
    const detail = `${after.entryCount} entries with this, at most ${quota.entryCount}`
    throw new ServerError('ERR_STORAGE_FULL', { detail })
  }
}
