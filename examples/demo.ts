/** `npm run demo`: scripted wallets go through everything, at services of their own. Nothing is left behind. */
import { showLogin } from './demo-login.js'
import { showRelay } from './demo-relay.js'
import { startServers } from './demo-servers.js'
import { showVault } from './demo-vault.js'

await showLogin()

const servers = await startServers()
await showRelay(servers)
await showVault(servers)
await servers.stop()

console.log(
  '\nThat was all. README.md says how to run the servers, and how to put the login on an application of yours.'
)
