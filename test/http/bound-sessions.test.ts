import { memoryStore } from 'express-did-auth'
import { boundSessionTests } from './bound-sessions.js'

boundSessionTests('memory', () => {
  const store = memoryStore()
  return { stores: [store, store], remove: () => undefined }
})
