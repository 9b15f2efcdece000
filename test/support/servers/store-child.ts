/**
 * Process that works on a SQLite store, for tests that need several processes. Started by `forkStore`.
 *
 * For a message `{ id, startAt, calls }`, it makes all calls simultaneously at `startAt` and answers `{ id, results }`.
 * With the second argument `write`, it writes without end. It prints each write before the call and after its
 * acknowledgement.
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
  process.on('message', (order: Order) => void execute(order))
  process.on('disconnect', () => process.exit())
  process.send?.('ready')
}

async function execute({ id, startAt, calls }: Order): Promise<void> {
  // Waits in a loop, because with timers one process would begin milliseconds after the other.
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

/** Creates sessions, and rotates each three times. Each line is one write, so that a kill leaves no partial line. */
async function writeForever(): Promise<void> {
  for (let number = 0; ; number += 1) {
    const name = `${process.pid} ${number}`
    print(`create ${name} 0\n`)
    await store.createSession!(createSession(name, { did: `did:ethr:0x${number}` }))
    print(`created ${name} 0\n`)
    for (let rotation = 1; rotation <= 3; rotation += 1) {
      print(`rotate ${name} ${rotation}\n`)
      await store.rotateRefreshToken!(createRotation(name, rotation - 1, rotation))
      print(`rotated ${name} ${rotation}\n`)
    }
  }
}

/** Writes a line to standard output. While the pipe is full, it waits for the test to read it. */
function print(line: string): void {
  for (;;) {
    try {
      writeSync(1, line)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
    }
  }
}
