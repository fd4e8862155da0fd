# Installs the library, its public headers and the package that find_package(adret) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/adret)

install(TARGETS adret adret_formulas EXPORT adret_targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ${cpu_backends} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET adret_cuda)
  install(TARGETS adret_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES adret.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/adret)
file(STRINGS cmake/private_headers.txt private_headers REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cmake/private_headers.txt)
list(TRANSFORM private_headers REPLACE "/$" "")
list(TRANSFORM private_headers REPLACE "(.+)" "PATTERN;\\1;EXCLUDE")
install(DIRECTORY core autograd layers optim train data certify
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/adret
        FILES_MATCHING PATTERN "*.h" ${private_headers})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT adret_targets FILE adret-targets.cmake NAMESPACE adret:: DESTINATION ${package_dir})
configure_package_config_file(cmake/adret-config.cmake.in adret-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(adret-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/adret-config.cmake
              ${PROJECT_BINARY_DIR}/adret-config-version.cmake DESTINATION ${package_dir})
