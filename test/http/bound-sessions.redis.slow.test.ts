import { sharedStores } from '../support/servers/shared-stores.js'
import { boundSessionTests } from './bound-sessions.js'

for (const [name, open] of Object.entries(sharedStores)) boundSessionTests(name, open)
