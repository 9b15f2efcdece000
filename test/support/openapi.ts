import { readDocument, type OpenApiDocument } from '../../servers/openapi/document.js'

/** The three documents, as they are packed. */
export const documents = { auth: readDocument('auth'), relay: readDocument('relay'), vault: readDocument('vault') }

/** An operation of a document, as far as tests look into it. */
export interface Operation {
  operationId: string
  parameters?: { name: string; in: string }[]
  security?: Record<string, unknown>[]
  requestBody?: { content: Record<string, { schema: object }> }
  responses: Record<string, { content?: Record<string, { schema: object }>; headers?: Record<string, object> }>
}

/** Every operation of a document, with its method in lower case. */
export function listOperations({ paths }: OpenApiDocument): { method: string; path: string; operation: Operation }[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method, path, operation: operation as Operation }))
  )
}
