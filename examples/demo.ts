/** `npm run demo`: scripted wallets use all features of temporary services. The demo deletes its data at the end. */
import { showLogin } from './demo-login.js'
import { showRelay } from './demo-relay.js'
import { startServers } from './demo-servers.js'
import { showVault } from './demo-vault.js'

await showLogin()

const servers = await startServers()
await showRelay(servers)
await showVault(servers)
await servers.stop()

console.log('\nThe demo is complete. See README.md to run the servers, and to add the login to your own app.')
