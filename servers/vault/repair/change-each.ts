import type { CheckParts } from './check-contents.js'

const BATCH = 500

/**
 * Changes what a query finds, in short transactions, and answers how many that were.
 *
 * @param query - SQL for cids after one, in order, and so many
 * @param isMeant - whether what the query found is to be changed
 */
export function changeEach(
  { database, isDryRun }: CheckParts,
  query: string,
  change: (cid: string) => void,
  isMeant: (cid: string) => boolean = () => true
): number {
  const next = database.prepare<[string, number], string>(query).pluck()
  let count = 0
  let batch = next.all('', BATCH)
  while (batch.length > 0) {
    const meant = batch.filter(isMeant)
    count += meant.length
    const changeAll = database.transaction(() => {
      for (const cid of meant) change(cid)
    })
    if (!isDryRun && meant.length > 0) changeAll.immediate()
    batch = next.all(batch.at(-1) ?? '', BATCH)
  }
  return count
}
