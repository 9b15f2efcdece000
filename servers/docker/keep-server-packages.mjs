// Makes the packages that the servers need dependencies of this copy, so that `npm prune --omit=dev` leaves them there in
// the versions of the lock file. The native curve is kept as well.
import { readFileSync, writeFileSync } from 'node:fs'
import { requiredPackages } from '../../dist/servers/shared/start/required-packages.js'

const file = new URL('../../package.json', import.meta.url)
const json = JSON.parse(readFileSync(file, 'utf8'))
const names = requiredPackages(['auth', 'relay', 'vault'], true).map((versioned) => versioned.replace(/@\d+$/, ''))
for (const name of [...names, 'secp256k1']) {
  json.dependencies[name] = json.devDependencies[name]
  delete json.devDependencies[name]
}
writeFileSync(file, `${JSON.stringify(json, undefined, 2)}\n`)
