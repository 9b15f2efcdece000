import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Where Jest's globalSetup compiled the sources to; unset in a program that was not started by Jest. */
const compiled = process.env.TEST_COMPILED

/** What Node is told before a TypeScript file of this repository, so that it can run it. */
export const nodeOptions: readonly string[] = compiled === undefined ? ['--import', 'tsx'] : []

/**
 * The file that a process runs in place of a TypeScript file.
 *
 * @param path - from the root of the repository, such as `servers/cli.ts`
 */
export function scriptFile(path: string): string {
  return compiled === undefined ? join(root, path) : join(compiled, path.replace(/ts$/, 'js'))
}
