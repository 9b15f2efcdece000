import { createServer, type RequestListener, type Server } from 'node:http'

/**
 * Creates a server that never closes an idle connection. Node's default closes it after 5 s: if this process pauses, a
 * client could send a request on a connection that is being closed.
 */
export function createHttpServer(listener: RequestListener): Server {
  return Object.assign(createServer(listener), { keepAliveTimeout: 0 })
}
