import { sqliteStore } from 'express-did-auth/stores/sqlite'

/** Store in a file, for all processes of one machine. Sessions survive a restart. */
export const store = sqliteStore(process.env.DATABASE_FILE ?? 'sessions.db')
