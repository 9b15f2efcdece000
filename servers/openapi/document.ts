import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { listsEntityTag } from 'express-did-auth/server-kit'
import type { RequestHandler } from 'express'
import type { ServerName } from '../config/read-env.js'

/** Part of an OpenAPI document. */
type Part = Readonly<Record<string, unknown>>
type Paths = Readonly<Record<string, Part>>
type Components = Readonly<Record<string, Part>>

/** Description of one server. The URL in `servers` is `/`, relative to the address of the document. */
export type OpenApiDocument = { paths: Paths; components: Components }

/** Header that each response of an application has. Responses that Node itself sends do not have it. */
const REQUEST_ID = { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } }

const COMPONENT = /"#\/components\/(\w+)\/(\w+)"/g

/**
 * Reads the description of a server from the files in this folder. They refer to paths and components in `shared.json`;
 * the result contains them, and refers to no other file.
 * @throws Error if the build did not copy the files
 */
export function readDocument(name: ServerName): OpenApiDocument {
  const shared = readJson('shared')
  const { components: mentioned, ...source } = readJson(name)
  const paths = Object.fromEntries(
    Object.entries(source.paths).map(([path, item]) => [path, '$ref' in item ? shared.paths[path] : item])
  )
  const json = JSON.stringify({ ...source, paths }).replaceAll('"shared.json#/', '"#/')
  const document = JSON.parse(json) as Omit<OpenApiDocument, 'components'>
  // Operations name security schemes without a reference.
  const schemes = JSON.stringify(mentioned).replaceAll('shared.json', '')
  return { ...document, components: pickComponents(json + schemes, shared.components) }
}

/** Serves `GET /openapi.json`: the document with the URL of the server. @throws as `readDocument`, on creation */
export function serveDocument(name: ServerName, serviceUrl: string): RequestHandler {
  const servers = URL.canParse(serviceUrl) ? { servers: [{ url: serviceUrl }] } : {}
  const json = JSON.stringify({ ...readDocument(name), ...servers })
  const etag = `"${createHash('sha256').update(json).digest('base64url')}"`
  return (req, res) => {
    res.set({ 'Cache-Control': 'no-cache', ETag: etag })
    if (listsEntityTag(req.headers['if-none-match'], etag)) res.status(304).end()
    else res.type('application/json').send(json)
  }
}

/** Reads a file of this folder. Tests compare it with the schema of OpenAPI 3.1 and with the routes. */
function readJson(name: string): OpenApiDocument {
  const text = readFileSync(new URL(`./${name}.json`, import.meta.url), 'utf8')
  const addTo = (key: string, value: unknown): unknown => (key === 'responses' ? addRequestIds(value as Paths) : value)
  return JSON.parse(text, addTo) as OpenApiDocument
}

/** Adds the header with the request id to responses, except to references and to the response of Node itself. */
function addRequestIds(responses: Paths): Paths {
  const entries = Object.entries(responses).map(([name, response]): [string, Part] => {
    const isBare = '$ref' in response || name === 'HeadersTooLarge'
    return [name, isBare ? response : { ...response, headers: { ...Object(response.headers), ...REQUEST_ID } }]
  })
  return Object.fromEntries(entries)
}

/** Returns the components that JSON refers to, directly or through other components. */
function pickComponents(json: string, components: Components): Components {
  const used = new Set<string>()
  const collect = (text: string): void => {
    for (const [reference, kind = '', name = ''] of text.matchAll(COMPONENT)) {
      if (used.has(reference)) continue
      used.add(reference)
      collect(JSON.stringify(components[kind]?.[name]))
    }
  }
  collect(json)
  const kinds = Object.entries(components).map(([kind, parts]): [string, Part] => {
    const isUsed = ([name]: [string, unknown]): boolean => used.has(`"#/components/${kind}/${name}"`)
    return [kind, Object.fromEntries(Object.entries(parts).filter(isUsed))]
  })
  return Object.fromEntries(kinds.filter(([, parts]) => Object.keys(parts).length > 0))
}
