import Database from 'better-sqlite3'
import { setTimeout as pause } from 'node:timers/promises'
import { scaled } from './time-factor.js'

/** Ends the leases of a process that was killed, as 20 s do. */
export function endLeases(file: string): void {
  new Database(file).exec('UPDATE pins SET claimed_until = 0').close()
}

/**
 * Waits while the server of a vault carries out its pin ledger. What waits for a later try is due at once, as after an hour.
 *
 * @param file - the vault's database
 * @param listPins - what is pinned on the node, asked without the code under test
 * @returns how node and ledger differ from the entries in the end
 */
export async function drainPins(
  file: string,
  listPins: () => Iterable<string> | Promise<Iterable<string>>
): Promise<string[]> {
  const database = new Database(file)
  const entries = database.prepare<[], string>('SELECT DISTINCT cid FROM entries ORDER BY cid').pluck()
  const open = database.prepare<[], number>("SELECT count(*) FROM pins WHERE state <> 'pinned'").pluck()
  const age = database.prepare("UPDATE pins SET retry_at = 0 WHERE state <> 'pinned' AND retry_at > unixepoch()")
  const findFaults = async (): Promise<string[]> => {
    const stored = entries.all()
    const found = [...(await listPins())].sort()
    const count = open.get() ?? 0
    return [
      ...(found.join() === stored.join() ? [] : [`${found.length} pins on the node for ${stored.length} contents`]),
      ...(count === 0 ? [] : [`${count} pins are open`])
    ]
  }
  try {
    const end = performance.now() + scaled(50_000)
    for (;;) {
      const faults = await findFaults()
      if (faults.length === 0 || performance.now() > end) return faults
      age.run()
      await pause(50)
    }
  } finally {
    database.close()
  }
}
