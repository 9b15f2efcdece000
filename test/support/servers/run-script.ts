import net from 'node:net'
import type { Server } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Folder that Jest's globalSetup compiled the sources to; unset in a program that Jest did not start. */
const compiled = process.env.TEST_COMPILED

/**
 * Process id of the run, of Jest or `npm run figures`, to which this process belongs. .config/compile-for-tests.js puts
 * it into the name of a folder.
 */
export const runPid = Number(/compiled-(\d+)$/.exec(compiled ?? '')?.[1] ?? process.pid)

/** Options with which Node can run a TypeScript file of this repository. */
export const nodeOptions: readonly string[] = compiled === undefined ? ['--import', 'tsx'] : []

/**
 * Returns the options with which Node maps the names of library and client to their sources. Compiled files import
 * paths instead of these names, and need no options.
 *
 * @param env - with `TEST_EXPRESS` or `TEST_MISSING`, which also change compiled files
 */
export function nameOptions({ TEST_EXPRESS, TEST_MISSING = '' }: Readonly<Record<string, string>> = {}): string[] {
  if (compiled !== undefined && TEST_EXPRESS !== '4' && TEST_MISSING === '') return []
  return ['--import', pathToFileURL(scriptFile('test/support/servers/server-imports.ts')).href]
}

/**
 * Returns the path of the file that a process runs for a TypeScript file: compiled under Jest, otherwise the source.
 *
 * @param path - from the root of the repository, such as `servers/cli.ts`
 */
export function scriptFile(path: string): string {
  return compiled === undefined ? join(root, path) : join(compiled, path.replace(/ts$/, 'js'))
}

/** Running example: its server, and a function that stops it and restores this process. */
export interface RunningExample {
  server: Server
  stop(): void
}

/**
 * Imports an unchanged file that calls `app.listen(3000)`, and gives it any free port instead.
 *
 * @param load - imports the file
 * @param count - number of servers that it starts; users reach the last one
 */
export async function runExample(load: () => Promise<unknown>, count = 1): Promise<RunningExample> {
  const { listen } = net.Server.prototype
  const { log } = console
  // The example prints the address with port 3000, which is wrong here.
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

/** Sets environment variables, and returns a function that restores the previous values. */
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
