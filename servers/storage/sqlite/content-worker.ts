/** The thread that owns a content store's database: reads at once, writes in groups. */
import { parentPort, workerData } from 'node:worker_threads'
import { ContentThread, type Batch, type ThreadSettings } from './content-thread.js'

// That node:sqlite is experimental, the main thread has said already.
process.removeAllListeners('warning')

const port = parentPort
if (port === null) throw new Error('express-did-auth: this file is started by openContentStore')
const thread = new ContentThread(workerData as ThreadSettings, (replies) => {
  port.postMessage(replies)
})
port.on('message', (message: unknown) => {
  if (Array.isArray(message)) {
    thread.receive(message as unknown as Batch)
    return
  }
  thread.close()
  port.close()
})
