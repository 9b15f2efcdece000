import { afterAll, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRequire } from 'node:module'
import { promisify } from 'node:util'
import { root } from '../support/fixtures/documents.js'
import { documents } from '../support/fixtures/openapi.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { scaled } from '../support/fixtures/time-factor.js'

const folder = temporaryFolder()
afterAll(() => folder.remove())

const run = promisify(execFile)

/** Client code for the types of each document; its last line must not compile. */
const uses: Record<string, string> = {
  auth: `
    const tokens: Json<'/auth', 'post', 200> = { accessToken: 'a.b.c', refreshToken: 'r' }
    const session: Json<'/session', 'get', 200> = {}
    const code: Problem<'/refresh-token', 'post', 401>['code'] = 'ERR_REFRESH_TOKEN_REUSED'
    // @ts-expect-error another name
    const wrong: Json<'/auth', 'post', 200> = { token: 'a.b.c' }`,
  relay: `
    const file: Json<'/file/{cid}', 'get', 200> = { file: 'Hello' }
    const code: Problem<'/file/{cid}', 'get', 404>['code'] = 'ERR_NOT_FOUND'
    // @ts-expect-error a number
    const wrong: Json<'/file/{cid}', 'get', 200> = { file: 7 }`,
  vault: `
    const written: Json<'/{key}', 'post', 201> = { id: 'bafy' }
    const list: Json<'/{didOrKey}/{keyOrId}', 'get', 200> = ['Milk']
    // @ts-expect-error no list
    const wrong: Json<'/{didOrKey}/{keyOrId}', 'get', 200> = 'Milk'`
}
const helpers = `
  type At<P extends keyof paths, M, S> = M extends keyof paths[P]
    ? paths[P][M] extends { responses: infer R } ? S extends keyof R ? R[S] : never : never : never
  type Content<R, T> = R extends { content: infer C } ? T extends keyof C ? C[T] : never : never
  export type Json<P extends keyof paths, M, S> = Content<At<P, M, S>, 'application/json'>
  export type Problem<P extends keyof paths, M, S> = Content<At<P, M, S>, 'application/problem+json'>`

/** The linter that `redocly lint` runs. It is installed with openapi-typescript. */
interface Linter {
  createConfig: (options: { extends: string[] }) => Promise<object>
  lintFromString: (options: { source: string; absoluteRef: string; config: object }) => Promise<{ message: string }[]>
}
const linter = createRequire(join(root, 'test/slow/node_modules/x.js'))('@redocly/openapi-core') as Linter

describe.each(Object.entries(documents))('the OpenAPI document of %s', (name, document) => {
  it.each([
    ['as it is packed', {}],
    ['as GET /openapi.json answers it', { servers: [{ url: `https://${name}.example` }] }]
  ])('passes redocly without an unexpected error or warning, %s', async (_how, servers) => {
    const source = JSON.stringify({ ...document, ...servers })
    const config = await linter.createConfig({ extends: ['recommended'] })
    const problems = await linter.lintFromString({ source, absoluteRef: `/${name}.json`, config })
    // GET /token only exists to answer an error.
    const expected = name === 'auth' ? ['Operation must have at least one `2XX` response.'] : []
    expect(problems.map(({ message }) => message)).toEqual(expected)
  })
})

describe.each(Object.entries(documents))('the client that openapi-typescript generates for %s', (name, document) =>
  it(
    'compiles together with code that uses it',
    async () => {
      const getPath = (end: string): string => join(folder.path, `${name}${end}`)
      writeFileSync(getPath('.json'), JSON.stringify(document))
      const bin = join(root, 'test/slow/node_modules/openapi-typescript/bin/cli.js')
      await run(process.execPath, [bin, getPath('.json'), '--output', getPath('-types.ts')], { cwd: folder.path })
      const types = readFileSync(getPath('-types.ts'), 'utf8')
      expect(types).toContain('export interface paths')
      writeFileSync(
        getPath('.ts'),
        `import type { paths } from './${name}-types.js'${helpers}${uses[name]!}\nexport {}\n`
      )
      const args = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023', getPath('.ts')]
      const tsc = run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...args], { cwd: folder.path })
      await tsc.catch((error: unknown) => {
        throw new Error((error as { stdout: string }).stdout)
      })
    },
    scaled(60_000)
  )
)
