/**
 * A process that works on a SQLite store, for the tests that need real ones. `fork` it by `forkStore`.
 *
 * Told `{ id, startAt, calls }`, it makes all calls at once at that time and answers `{ id, results }`. Told `write`,
 * it writes without end, and notes on stdout what it is about to do and what was acknowledged.
 */
import { writeSync } from 'node:fs'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { createRotation, createSession } from '../../../src/testing/store-case.js'

const [file = '', mode = ''] = process.argv.slice(2)
const store = sqliteStore(file) as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>

interface Order {
  id: number
  startAt: number
  calls: [verb: string, ...args: unknown[]][]
}

if (mode === 'write') {
  void writeForever()
} else {
  process.on('message', (order: Order) => void obey(order))
  process.on('disconnect', () => process.exit())
  process.send?.('ready')
}

async function obey({ id, startAt, calls }: Order): Promise<void> {
  // Spun away, because a timer would let one process begin milliseconds after the other.
  while (Date.now() < startAt);
  const results = await Promise.all(
    calls.map(async ([verb, ...args]) => {
      try {
        return await store[verb]!(...args)
      } catch (error) {
        return `error: ${String(error)}`
      }
    })
  )
  process.send?.({ id, results })
}

/** Sessions, each rotated a few times. One line a step, so that a kill cannot tear one apart. */
async function writeForever(): Promise<void> {
  for (let number = 0; ; number += 1) {
    const name = `${process.pid} ${number}`
    writeSync(1, `create ${name} 0\n`)
    await store.createSession!(createSession(name, { did: `did:ethr:0x${number}` }))
    writeSync(1, `created ${name} 0\n`)
    for (let rotation = 1; rotation <= 3; rotation += 1) {
      writeSync(1, `rotate ${name} ${rotation}\n`)
      await store.rotateRefreshToken!(createRotation(name, rotation - 1, rotation))
      writeSync(1, `rotated ${name} ${rotation}\n`)
    }
  }
}
