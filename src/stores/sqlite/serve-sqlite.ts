import type { MessagePort } from 'node:worker_threads'
import type { SqlVerbs } from '../sql/query.js'
import { GroupCommit, type GroupHooks, type Outcomes } from './group-commit.js'
import { sqliteCode, type SqlConnection } from './sqlite-engine.js'
import { CLOSE, type Batch, type Reply } from './sqlite-thread.js'

/** What a thread runs on its database. */
export interface ServedVerbs extends GroupHooks {
  readonly verbs: SqlVerbs
  /** Verbs that write nothing: they are answered before the commit of the others, and run in no transaction. */
  readonly reads: ReadonlySet<string>
}

/** Serves the verbs of a database in its own thread, in the order in which they come, for `SqliteThread`. */
export function serveSqlite(port: MessagePort, connection: SqlConnection, served: ServedVerbs): void {
  // That node:sqlite is experimental, the main thread has said already.
  process.removeAllListeners('warning')
  let replies: Reply[] = []
  let isJson = true
  /** How many were posted: each message is answered at once, though its verbs may wait for another process. */
  let posted = 0
  const post = (): void => {
    port.postMessage(isJson ? JSON.stringify(replies) : replies)
    replies = []
    posted += 1
  }
  const flush = (): void => {
    if (replies.length > 0) post()
  }
  const outcomes: Outcomes = {
    succeed: (id, result) => replies.push([id, result]),
    fail(id, error) {
      const message = error instanceof Error ? error.message : String(error)
      replies.push([id, null, { message, code: sqliteCode(error) }])
    }
  }
  const group = new GroupCommit(connection, served.verbs, outcomes, served)
  const receive = async ([waitedMilliseconds, ...requests]: Batch): Promise<void> => {
    const since = performance.now() - waitedMilliseconds
    const before = posted
    for (const request of requests) {
      if (served.reads.has(request[1])) await group.read(request)
      else group.add(request, since)
    }
    flush()
    await group.run(flush)
    if (posted === before) post()
  }
  let last = Promise.resolve()
  port.on('message', (message: string | Batch) => {
    if (message === CLOSE) {
      connection.close()
      port.close()
      return
    }
    isJson = typeof message === 'string'
    // A read must not come in the middle of a transaction.
    last = last.then(() => receive(typeof message === 'string' ? (JSON.parse(message) as Batch) : message))
    // A fault of the thread itself ends it, whatever Node does about rejections: the other side starts another.
    last.catch((error: unknown) => {
      setImmediate(() => {
        throw error
      })
    })
  })
}
