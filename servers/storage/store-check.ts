import type { Store } from 'express-did-auth'
import type { ContentMaintenance } from './content-store.js'

const FRESH_MILLISECONDS = 5_000

/**
 * Makes the check of a server's own storage for `/ready`: both databases in one. It writes, at most once in 5 s, and gives
 * the same answer in between.
 */
export function storeCheck(
  store: Pick<Store, 'ping'>,
  contents: Pick<ContentMaintenance, 'probe'>,
  nowMilliseconds = (): number => performance.now()
): () => Promise<void> {
  let checked: { answer: Promise<void>; freshUntil: number } | undefined
  const check = async (): Promise<void> => {
    await Promise.all([store.ping(), contents.probe()])
  }
  return () => {
    if (checked === undefined || nowMilliseconds() >= checked.freshUntil) {
      checked = { answer: check(), freshUntil: nowMilliseconds() + FRESH_MILLISECONDS }
    }
    return checked.answer
  }
}
