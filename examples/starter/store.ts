import { memoryStore } from 'express-did-auth'

/** Store that forgets all sessions at a restart. For production, use SQLite, PostgreSQL or Redis. */
export const store = memoryStore()
