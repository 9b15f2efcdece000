/** The thread that owns a database: runs verbs in the order in which they come, writes of a moment in one transaction. */
import { parentPort, workerData } from 'node:worker_threads'
import { StoreWorker } from './store-worker.js'
import { CLOSE, parseSettings } from './worker-message.js'

// That node:sqlite is experimental, the main thread has said already.
process.removeAllListeners('warning')

const port = parentPort
if (port === null) throw new Error('express-did-auth: this file is started by sqliteStore')
const worker = new StoreWorker(parseSettings(workerData), (message) => {
  port.postMessage(message)
})
port.on('message', (message: string) => {
  if (message !== CLOSE) {
    worker.receive(message)
    return
  }
  worker.close()
  port.close()
})
