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

/** Lists every operation of a document, with its method in lower case. References to responses are resolved. */
export function listOperations(document: OpenApiDocument): { method: string; path: string; operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item as Record<string, Operation>).map(([method, operation]) => {
      const responses = Object.entries(operation.responses).map(([status, response]) => [
        status,
        '$ref' in response ? findComponent(document, String(response.$ref)) : response
      ])
      return { method, path, operation: { ...operation, responses: Object.fromEntries(responses) } }
    })
  )
}

function findComponent({ components }: OpenApiDocument, reference: string): unknown {
  const [kind = '', name = ''] = reference.split('/').slice(2)
  return components[kind]?.[name]
}
