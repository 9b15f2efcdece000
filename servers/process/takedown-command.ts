import type { ContentAdministration, ContentReads } from '../storage/content-store.js'
import type { PinLedger } from '../storage/pin-ledger.js'

/** What a takedown works on. */
export interface TakedownParts {
  store: ContentAdministration & Pick<ContentReads, 'readContents'> & Pick<PinLedger, 'areSettled'>
  /** What has content: one, and several of it. */
  nouns: readonly [one: string, many: string]
  nowSeconds: number
}

/** What an operator asked for. */
export interface TakedownRequest {
  cid: string
  /** Allows the content again. */
  isAllow: boolean
  isDryRun: boolean
}

/**
 * Removes content and refuses it from then on, or allows it again. The running server removes the pin.
 *
 * @param out - gets each line of the report
 * @returns the exit code: 0 done, or nothing to do; 1 something of it remains here
 */
export async function runTakedown(
  { store, nouns: [one, many], nowSeconds }: TakedownParts,
  { cid, isAllow, isDryRun }: TakedownRequest,
  out: (line: string) => void
): Promise<number> {
  if (isDryRun) {
    out(await plan(store, cid, isAllow))
    return 0
  }
  if (isAllow) {
    out((await store.allow(cid)) ? `${cid} is allowed again.` : `${cid} was not taken down.`)
    return 0
  }
  const { removed, remains } = await store.takeDown(cid, 'takedown', nowSeconds)
  out(`Removed ${removed} ${removed === 1 ? one : many}. ${cid} is refused from now on.`)
  for (const sentence of remains) out(`Something may remain: ${sentence}.`)
  if (!(await store.areSettled([cid]))) out('Its pin is removed by the running server when the IPFS node answers.')
  out('Backups, replicas and their logs, snapshots of the disk and other IPFS nodes may still have it.')
  return remains.length === 0 ? 0 : 1
}

async function plan(store: TakedownParts['store'], cid: string, isAllow: boolean): Promise<string> {
  const isTakenDown = await store.isTakenDown(cid)
  if (isAllow) return isTakenDown ? `Would allow ${cid} again.` : `${cid} was not taken down.`
  if (isTakenDown) return `${cid} is taken down already.`
  const [content] = await store.readContents([cid])
  if (content === undefined) return `${cid} is not stored here. Would refuse it from now on.`
  return `Would remove ${cid} (${content.byteCount} bytes), and refuse it from now on.`
}
