# Installs the library, its public headers and the package that find_package(adret) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/adret)

install(TARGETS adret EXPORT adret_targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES adret.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/adret)
# The backends' own headers stay inside.
install(DIRECTORY core autograd layers optim train data
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/adret
        FILES_MATCHING PATTERN "*.h"
        PATTERN "core/cpu" EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT adret_targets FILE adret-targets.cmake NAMESPACE adret:: DESTINATION ${package_dir})
configure_package_config_file(cmake/adret-config.cmake.in adret-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(adret-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/adret-config.cmake
              ${PROJECT_BINARY_DIR}/adret-config-version.cmake DESTINATION ${package_dir})
