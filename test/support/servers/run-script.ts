import net from 'node:net'
import type { Server } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Folder that Jest's globalSetup compiled the sources to; unset in a program that Jest did not start. */
const compiled = process.env.TEST_COMPILED

/** Options of Node before a TypeScript file of this repository, so that it can run it. */
export const nodeOptions: readonly string[] = compiled === undefined ? ['--import', 'tsx'] : []

/**
 * The file that a process runs in place of a TypeScript file.
 *
 * @param path - from the root of the repository, such as `servers/cli.ts`
 */
export function scriptFile(path: string): string {
  return compiled === undefined ? join(root, path) : join(compiled, path.replace(/ts$/, 'js'))
}

/** An example that listens, and what it left behind. */
export interface RunningExample {
  server: Server
  stop(): void
}

/**
 * Imports a file that calls `app.listen(3000)`, verbatim, but lets it have any free port instead.
 *
 * @param load - imports the file
 * @param count - how many servers it starts; the last is the one that users reach
 */
export async function runExample(load: () => Promise<unknown>, count = 1): Promise<RunningExample> {
  const { listen } = net.Server.prototype
  const { log } = console
  // The server prints its address, which is another one here.
  console.log = () => undefined
  const signals = new Set(process.listeners('SIGTERM'))
  const started: Server[] = []
  net.Server.prototype.listen = function (this: Server) {
    started.push(this)
    return Reflect.apply(listen, this, [0, '127.0.0.1']) as Server
  } as typeof listen
  try {
    await load()
  } finally {
    net.Server.prototype.listen = listen
  }
  const server = started.at(-1)
  if (server === undefined || started.length !== count) {
    console.log = log
    throw new Error(`${started.length} servers instead of ${count === 1 ? 'one' : count}`)
  }
  return {
    server,
    stop: () => {
      console.log = log
      for (const child of started) {
        child.closeAllConnections()
        child.close()
      }
      for (const listener of process.listeners('SIGTERM')) {
        if (!signals.has(listener)) process.removeListener('SIGTERM', listener)
      }
    }
  }
}

/** Sets environment variables, and answers how to put back what was there. */
export function setEnvironment(values: Readonly<Record<string, string>>): () => void {
  const before = Object.keys(values).map((name) => [name, process.env[name]] as const)
  Object.assign(process.env, values)
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) Reflect.deleteProperty(process.env, name)
      else process.env[name] = value
    }
  }
}
