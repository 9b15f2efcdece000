/** Worker thread of a content store, which runs verbs on its database. */
import { serveParentThread } from 'express-did-auth/server-kit'
import { serveContents } from './serve-contents.js'

serveParentThread(serveContents)
