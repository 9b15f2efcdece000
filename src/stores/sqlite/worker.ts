/** Worker thread of a SQLite store, which runs verbs on its database. */
import { serveSessions } from './serve-sessions.js'
import { serveParentThread } from './serve-sqlite.js'

serveParentThread(serveSessions)
