/** Small enough that no two leaves of 256 KiB are the same. */
const PIECE_BYTES = 256
let pieces = 0

/** Another file each time, in which all leaves differ, because the same once more is no work. */
export function newFile(byteCount: number): string {
  const piece = (): string => String((pieces += 1)).padStart(12, '0') + 'a'.repeat(PIECE_BYTES - 12)
  return Array.from({ length: byteCount / PIECE_BYTES }, piece).join('')
}
