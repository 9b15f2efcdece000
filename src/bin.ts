#!/usr/bin/env node
// Old versions of Node run this file to print the required version, so use only syntax of 2018 or earlier.
import { readFileSync } from 'node:fs'

const SERVERS = 'express-did-auth-servers'

const args = process.argv.slice(2)
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major < 20 || (major === 20 && minor < 19)) {
  fail(`express-did-auth needs Node 20.19 or newer; this is Node ${process.versions.node}.`)
} else if (args.length === 1 && args[0] === '--version') {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  process.stdout.write(`${(JSON.parse(manifest) as { version: string }).version}\n`)
} else if (args[0] === 'init') {
  import('./init.js')
    .then(({ init }) => process.stdout.write(init(args.slice(1))))
    .catch((error: unknown) => fail((error as Error).message))
} else {
  // The servers run in this process and parse the command line themselves.
  import(`${SERVERS}/cli`).catch((error: unknown) => {
    if (!isServersMissing(error)) throw error
    const command = args.length === 0 ? 'auth' : args.join(' ')
    fail(`To write an app, run: npx express-did-auth init my-app
The servers are in the package ${SERVERS}. Run: npx ${SERVERS} ${command}`)
  })
}

function fail(sentence: string): void {
  process.stderr.write(`${sentence}\n`)
  process.exitCode = 1
}

/** Whether the servers' package is missing, and not one of its dependencies. */
function isServersMissing(error: unknown): boolean {
  const isMissing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
  return isMissing && error.message.includes(`'${SERVERS}'`)
}
