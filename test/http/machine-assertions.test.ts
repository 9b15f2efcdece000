import { memoryStore } from 'express-did-auth'
import { machineAssertionTests } from './machine-assertions.js'

machineAssertionTests('memory', () => {
  const store = memoryStore()
  return { stores: [store, store], remove: () => undefined }
})
