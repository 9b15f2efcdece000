import { createHash } from 'node:crypto'
import type { ContentInfo, FileWrite } from './content-store.js'

/** What a file counts beside its bytes: its rows and their indexes. */
export const FILE_OVERHEAD_BYTES = 512

/** A file without its bytes. */
export type FileRow = ContentInfo & { readonly expiresAtSeconds: number }

/** What a post says of itself. */
export type Post = Pick<FileWrite, 'did' | 'nowSeconds' | 'ttlSeconds' | 'bounds'>

/** When the time slot of a moment ends. */
export function slotEnd(nowSeconds: number, slotSeconds: number): number {
  return (Math.floor(nowSeconds / slotSeconds) + 1) * slotSeconds
}

/** What stands for a user who posts, so that a table tells no reader who posted how much. */
export function hashOfDid(did: string): string {
  return createHash('sha256').update(did).digest('base64url')
}
