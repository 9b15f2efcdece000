import { fork, spawn, type ChildProcess } from 'node:child_process'
import type { Store } from '../../../src/ports.js'
import { nodeOptions, scriptFile } from './run-script.js'

const childFile = scriptFile('test/support/servers/store-child.ts')

/** Verb of the store and its arguments, for a call in another process. */
export type Call = {
  [Verb in keyof Required<Store>]: [verb: Verb, ...args: Parameters<Required<Store>[Verb]>]
}[keyof Store]

/** Separate process with a store on a file. */
export interface StoreProcess {
  /** Makes all calls simultaneously at `startAt` (milliseconds since the Unix epoch), and returns their results. */
  callAll(calls: Call[], startAt?: number): Promise<unknown[]>
  stop(): Promise<void>
}

/** Starts a process that has a SQLite store open on a file. */
export async function forkStore(file: string): Promise<StoreProcess> {
  const child = fork(childFile, [file], { execArgv: [...nodeOptions], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const waiting = new Map<number, (results: unknown[]) => void>()
  let orders = 0
  await new Promise<void>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the store process ended with ${String(code)}`)))
    child.on('message', (message: 'ready' | { id: number; results: unknown[] }) => {
      if (message === 'ready') resolve()
      else waiting.get(message.id)?.(message.results)
    })
  })
  return {
    callAll: (calls, startAt = 0) =>
      new Promise((resolve) => {
        orders += 1
        waiting.set(orders, resolve)
        child.send({ id: orders, startAt, calls })
      }),
    stop: () => disconnectAndWait(child)
  }
}

/** Output of a process until it was killed. */
export interface WrittenUntilKilled {
  /** Output lines: `create`, `created`, `rotate` or `rotated`, with the process, session and rotation number. */
  notes: string[]
  /** Number of acknowledged writes per second. */
  writesPerSecond: number
}

/** Lets a process write sessions to a file, and kills it with SIGKILL `milliseconds` after its first write. */
export async function killWhileWriting(file: string, milliseconds: number): Promise<WrittenUntilKilled> {
  const child = spawn(process.execPath, [...nodeOptions, childFile, file, 'write'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let text = ''
  let startedAt = 0
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
    // The first write waits for the thread of the store to start.
    if (startedAt > 0 || !/^created/m.test(text)) return
    startedAt = performance.now()
    setTimeout(() => child.kill('SIGKILL'), milliseconds)
  })
  await new Promise((resolve) => child.once('close', resolve))
  const notes = text.split('\n').filter((line) => line !== '')
  const writes = notes.filter((note) => /^(created|rotated)/.test(note)).length
  return { notes, writesPerSecond: (writes * 1000) / (performance.now() - startedAt) }
}

async function disconnectAndWait(child: ChildProcess): Promise<void> {
  const exit = new Promise((resolve) => child.once('exit', resolve))
  child.disconnect()
  await exit
}
