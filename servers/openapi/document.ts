import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { RequestHandler } from 'express'
import type { ServerName } from '../config/read-env.js'

/** Part of an OpenAPI document. */
type Part = Readonly<Record<string, unknown>>

/** The description of one server. Its `servers` is `/`, which is relative to where the document was read. */
export type OpenApiDocument = { paths: Readonly<Record<string, Part>>; components: Part }

/** Reads the document of a server from a file in this folder. @throws Error if the build did not copy it */
export function readDocument(name: ServerName): OpenApiDocument {
  const json = readFileSync(new URL(`./${name}.json`, import.meta.url), 'utf8')
  // A file of ours: the tests hold it against the schema of OpenAPI 3.1 and against the routes.
  return JSON.parse(json) as OpenApiDocument
}

/** Serves `GET /openapi.json`: the document with the URL of the server. @throws as `readDocument`, when it is made */
export function serveDocument(name: ServerName, serviceUrl: string): RequestHandler {
  const servers = URL.canParse(serviceUrl) ? { servers: [{ url: serviceUrl }] } : {}
  const json = JSON.stringify({ ...readDocument(name), ...servers })
  const etag = `"${createHash('sha256').update(json).digest('base64url')}"`
  return (_req, res) => {
    res.set({ 'Cache-Control': 'no-cache', ETag: etag }).type('application/json').send(json)
  }
}
