#!/usr/bin/env node
// Old versions of Node have to parse this file to print which version is needed: it uses no syntax newer than 2018.
import { readFileSync } from 'node:fs'

const args = process.argv.slice(2)
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`express-did-auth-servers needs Node 20.19 or newer; this is Node ${process.versions.node}.\n`)
  process.exitCode = 1
} else if (args.length === 1 && args[0] === '--version') {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  process.stdout.write(`${(JSON.parse(manifest) as { version: string }).version}\n`)
} else {
  void import('./cli.js')
}
