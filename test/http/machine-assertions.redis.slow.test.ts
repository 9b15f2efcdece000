import { sharedStores } from '../support/servers/shared-stores.js'
import { machineAssertionTests } from './machine-assertions.js'

for (const [name, open] of Object.entries(sharedStores)) machineAssertionTests(name, open)
