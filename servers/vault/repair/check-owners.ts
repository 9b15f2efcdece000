import type { CheckParts } from './check-contents.js'
import { counted, type Finding } from './finding.js'

const BATCH = 100

const RECOUNT = `
  SELECT owners.id FROM owners LEFT JOIN entries ON entries.owner = owners.id WHERE owners.id > ? AND owners.id <= ?
  GROUP BY owners.id
  HAVING owners.byte_count <> ifnull(sum(entries.byte_count), 0) OR owners.entry_count <> count(entries.number)`

const CORRECT = `
  UPDATE owners SET
    byte_count = (SELECT ifnull(sum(byte_count), 0) FROM entries WHERE owner = owners.id),
    entry_count = (SELECT count(*) FROM entries WHERE owner = owners.id)
  WHERE id = ?`

/** Whether bytes and entries of every user are counted right. */
export function checkOwners({ database, isDryRun }: CheckParts): Finding {
  const lastOf = database
    .prepare<[number, number], number | null>(
      'SELECT max(id) FROM (SELECT id FROM owners WHERE id > ? ORDER BY id LIMIT ?)'
    )
    .pluck()
  const recount = database.prepare<[number, number], number>(RECOUNT).pluck()
  // One statement, and so one moment, also beside a running server.
  const correct = database.prepare<[number]>(CORRECT)
  let wrong = 0
  let from = 0
  for (let last = lastOf.get(from, BATCH); typeof last === 'number'; last = lastOf.get(from, BATCH)) {
    for (const id of recount.all(from, last)) {
      wrong += 1
      if (!isDryRun) correct.run(id)
    }
    from = last
  }
  const text =
    wrong === 0
      ? 'counters: right for all users'
      : `counters: ${isDryRun ? 'to correct' : 'corrected'} for ${counted(wrong, 'user')}`
  return { text, repairs: wrong, faults: 0 }
}
