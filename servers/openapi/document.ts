import { readFileSync } from 'node:fs'
import type { RequestHandler } from 'express'
import type { ServerName } from '../config/read-env.js'

/** Part of an OpenAPI document. */
type Part = Readonly<Record<string, unknown>>

/** What one server serves, but for `servers`: only the server knows its URL. */
export type OpenApiDocument = { paths: Readonly<Record<string, Part>>; components: Part }

/** Reads the document of a server, a file beside this one. @throws Error where the build did not copy it */
export function readDocument(name: ServerName): OpenApiDocument {
  const json = readFileSync(new URL(`./${name}.json`, import.meta.url), 'utf8')
  // A file of ours: the tests hold it against the schema of OpenAPI 3.1 and against the routes.
  return JSON.parse(json) as OpenApiDocument
}

/** `GET /openapi.json`: the document with the URL of the server. @throws as `readDocument`, when it is made */
export function serveDocument(name: ServerName, serviceUrl: string): RequestHandler {
  const servers = URL.canParse(serviceUrl) ? [{ url: serviceUrl }] : []
  const json = JSON.stringify({ ...readDocument(name), servers })
  return (_req, res) => {
    res.set('Cache-Control', 'no-cache').type('application/json').send(json)
  }
}
