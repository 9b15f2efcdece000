/** Reference of the public API: one page per entry of the library and the client, generated from the types' comments. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Application } from 'typedoc'
import { pagesDir, rootDir } from './pages.js'

/** Lists the entries of a package with their source files. */
function listEntries(folder) {
  const { name, exports } = JSON.parse(readFileSync(join(rootDir, folder, 'package.json'), 'utf8'))
  return Object.entries(exports)
    .filter(([, target]) => typeof target !== 'string')
    .map(([path, { types }]) => ({
      name: name + path.slice(1),
      // dist/client/index.d.ts of the client is src/client/index.ts.
      source: join(rootDir, types.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts'))
    }))
}

/** Writes the pages of the API. @returns the name and the address of each */
export async function writeApi() {
  const entries = [...listEntries('.'), ...listEntries('src/client')]
  const app = await Application.bootstrapWithPlugins({
    entryPoints: entries.map(({ source }) => source),
    tsconfig: join(rootDir, '.site/tsconfig.json'),
    plugin: ['typedoc-plugin-markdown'],
    router: 'module',
    readme: 'none',
    disableSources: true,
    excludePrivate: true,
    excludeExternals: true,
    // `npm run types` reports errors of types.
    skipErrorChecking: true,
    logLevel: 'Error',
    hideBreadcrumbs: true,
    hidePageHeader: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    classPropertiesFormat: 'table',
    typeDeclarationFormat: 'table',
    propertyMembersFormat: 'table',
    pageTitleTemplates: { module: '{name}' },
    outputs: [{ name: 'markdown', path: join(pagesDir, 'api') }]
  })
  const project = await app.convert()
  if (project === undefined) throw new Error('The comments of the API cannot be read. The reason is above.')
  for (const [index, module] of project.children.entries()) module.name = entries[index].name
  await app.generateOutputs(project)
  return entries.map(({ name }) => ({ text: name, address: `api/${name}.md` }))
}
