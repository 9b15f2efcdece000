/**
 * `npm run bench`: what our routes cost beside bare Express and beside siwe with express-session, in one run.
 *
 * The cost of a request is CPU time of the server process, so that the load generator and other work on the machine
 * weigh little. P1 compares two routes of one application, the others two applications. A bare POST is a route with `express.json()` and `res.json()`. Ratios are medians of rounds that alternate between the variants. Nothing here is a gate.
 */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import secp256k1 from 'secp256k1'
import { measureImport } from './bench-import.js'
import { benchLibrary } from './bench-library.js'
import { benchRelay } from './bench-relay.js'
import { benchSiwe } from './bench-siwe.js'
import { benchVault } from './bench-vault.js'
import { ROUNDS } from './contest.js'
import { memoryFigures } from './figures-stores.js'
import { startVariant } from './variants.js'

const [, , chosenVariant] = process.argv

const wasmOnly = [
  '--import',
  `data:text/javascript,${encodeURIComponent(
    `import { register } from 'node:module'
     register('data:text/javascript,' + encodeURIComponent(
       "export async function resolve(s, c, n) { if (s.startsWith('secp256k1/')) throw new Error('hidden'); return n(s, c) }"))`
  )}`
]

secp256k1.contextRandomize(Buffer.alloc(32, 1))
console.log(`Node ${process.version}; ratio = CPU of bare Express / CPU of ours, medians of ${ROUNDS} rounds`)
const bare = await startVariant('bare')
const isChosen = (variant: string): boolean => chosenVariant === undefined || ['all', variant].includes(chosenVariant)

if (isChosen('native')) {
  const server = await startVariant('did-auth')
  await benchLibrary('memory, native', server, bare)
  server.stop()
}
if (isChosen('wasm')) {
  const server = await startVariant('did-auth', [], wasmOnly)
  await benchLibrary('memory, WASM', server, bare)
  server.stop()
}
if (isChosen('sqlite')) {
  const server = await startVariant('did-auth-sqlite', [join(mkdtempSync(join(tmpdir(), 'did-auth-')), 'bench.db')])
  await benchLibrary('SQLite, native', server, bare)
  server.stop()
}
if (isChosen('siwe')) {
  const server = await startVariant('siwe')
  await benchSiwe(server, bare)
  server.stop()
}
bare.stop()
if (isChosen('relay')) {
  await benchRelay('embedded')
  await benchRelay('node')
}
if (isChosen('vault')) await benchVault()
if (isChosen('import')) {
  measureImport()
  await memoryFigures()
}
